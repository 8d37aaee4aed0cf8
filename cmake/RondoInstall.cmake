# Filled by the api layer: headers, libraries, find_package(rondo) and pkg-config files.
