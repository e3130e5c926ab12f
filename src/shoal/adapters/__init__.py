"""Shoal's environments behind the interfaces of other libraries. Each module needs the library it is named after."""
