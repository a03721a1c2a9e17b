// Package logpages drops pages of log files from the page cache: files that the container runtime writes and that hardly anybody reads again. These pages are charged to the
// runtime and not to pods, so no limit of a pod bounds them, and reclaim from pods does not reach them.
//
// Example. A node is short of memory, and node/advise allows 64 MiB in this second. A Dropper takes up the list of files where it stopped, has the kernel begin to write what
// is dirty of the next file, and drop what is clean (POSIX_FADV_DONTNEED), 4 MiB at a time, until 64 MiB of cached pages are done. What was dirty is dropped in a later round.
// The last bytes of each file stay, for those who follow it.
//
// What always holds: nothing outside of the configured directories is opened. A tenant may write in such a directory, so below it no symbolic link is followed, no
// mount is crossed, and nothing but regular files is opened for reading (a device is not, whoever made it). No file is read. A step looks at a bounded number of files and ranges,
// and lists a bounded number of files of each folder, so that one tenant's many files do not keep others' from their turn. Between steps no file is open.
//
// It decides neither when nor how much is dropped: node/advise does. It does not touch what processes have mapped, which the kernel keeps.
package logpages
