"""plugins/analyzers"""
