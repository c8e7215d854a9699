"""plugins/models"""
