"""The text of the dialects: lexer, parser and printer that extend xDSL's to what Triton prints."""
