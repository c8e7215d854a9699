"""plugins/recipes"""
