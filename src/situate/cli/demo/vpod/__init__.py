"""Chapters on vpod, and the scene that the other chapters extend.

`objects` are created in the cluster, `demo_client` acts on them through the API, `scene` reads the state, `story` holds
the chapters, and `picture` draws the scene.
"""
