"""Records in one collection of MongoDB; the extra `mongo` installs the driver.

`archiver` makes the calls. `documents` converts records to documents and queries to filters, without I/O.
"""
