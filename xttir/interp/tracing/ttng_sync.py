"""Events of `ttng` barriers and fences."""
