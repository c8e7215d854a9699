"""plugins/environments"""
