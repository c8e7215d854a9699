"""plugins/benchmarks"""
