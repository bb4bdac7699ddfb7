"""Compiled loops over arrays in host memory: serial, one signature each, in threads of our own."""
