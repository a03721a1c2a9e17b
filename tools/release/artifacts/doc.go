// Package artifacts makes what a release of Hilbert consists of: programs, archives, images, charts, bills of materials, the plugin's manifest for krew,
// checksums and their signature.
//
// Data flow: Release describes one release; Make compiles the programs with the go command and writes everything else from them and from the tree into one
// folder. Nothing is read from a network but modules, and nothing is pushed: Push does that, later, from the folder.
//
// Invariants: the folder is a function of the commit, the version, the platforms and the Go toolchain. Times are the commit's, owners are root, lists are
// sorted, and no path of the building machine is in any file; a test makes a release twice and compares. The signature alone differs, because it is made
// with a secret.
//
// It decides nothing of what the programs do, and it is linked into none of them.
package artifacts
