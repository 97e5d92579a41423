"""The file system: sources, uploads, images, locks, backups, and checks of the library's files."""
