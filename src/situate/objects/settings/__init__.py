"""Settings: plain data of a configuration to typed values, with every mistake reported at once.

`yaml_text` reads YAML with line numbers and `section` checks one section against its type. `overrides` applies single
values from the environment and from flags. `options` offers one settings type as flags, environment, file and mapping;
`flags` adds the flags to a parser, and `schema` writes the JSON Schema.
"""
