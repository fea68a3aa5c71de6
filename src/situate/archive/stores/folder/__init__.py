"""Records as files below one folder.

`archiver` runs the blocking calls of `files` in threads. `names` maps any text to a safe file name. `tree` opens
folders without following links that lead outside. `pages` reads whole records only for the page that is returned.
"""
