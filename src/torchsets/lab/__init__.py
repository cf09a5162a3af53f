"""The laboratory: train, record, reproduce, report and benchmark what the library offers.

The library never imports from here.
"""
