"""Graphs as sets of nodes: what the readout of a graph network is worth."""
