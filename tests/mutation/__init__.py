"""Kernels with one synchronising instruction left out or changed: does the verifier notice?"""
