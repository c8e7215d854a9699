"""plugins/harnesses"""
