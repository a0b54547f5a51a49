"""Splits large functions into regions; equal regions are solved once and cached."""
