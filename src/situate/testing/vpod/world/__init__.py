"""The world of a history of vpod:

`world` runs the shipped processes; `counting_wire` counts faults on their connections.
"""
