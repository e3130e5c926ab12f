"""The same faults on every library: what does its user see?"""
