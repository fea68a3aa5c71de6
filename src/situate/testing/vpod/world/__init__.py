"""The world of a history of vpod: `world` runs the shipped processes; `wires` counts faults on their connections."""
