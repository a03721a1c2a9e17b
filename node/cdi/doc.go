// Package cdi says what a container gets of GPUs and network cards: which CDI devices, which environment, which mounts. It reads the CDI
// specifications of the node as the container runtime does, and writes one, for the device files of RDMA cards and virtual functions.
//
// Data flow: ReadCatalog reads the specifications. Catalog.GPU and Catalog.Instance name the device of a GPU or a MIG instance, once when the grant
// is made. Inject puts a pod's grant and one of its containers together into Edits, which node/nri turns into an adjustment. FilesOf finds the
// device files of a PCI function, Describe makes a specification of them, and Write keeps it on disk.
//
// Invariants: a name is given only where the specification opens the very device file that the driver has for the GPU, and libraries of the
// driver that runs; what is stale or stands twice is refused, with what to do about it. Which libraries a driver needs is never guessed: NVIDIA's
// own specification (nvidia-ctk cdi generate) is used, or there is none. A container without a grant gets NVIDIA_VISIBLE_DEVICES=void, whatever its
// image asks for. Inject, Describe and the Catalog's methods are pure.
//
// It does not decide which pod holds what (allocate does), and moves no network interface: that is the network plugin's. It cannot keep a privileged
// container, which sees every device, from any of them.
package cdi
