package gpu

// Params are the settings of a node's GPUs.
type Params struct {
	// Owner says which party should give the GPUs out: "auto", "hilbert" or "kubelet". See DecideOwner.
	Owner Setting
	// IgnoredXids are the faults of which the driver's log tells that are the application's and not the GPU's.
	IgnoredXids []int
	// Calm is how many answers in a row must be good before a GPU that was unhealthy, gone or doubled is opened again.
	Calm int
	// Patience is how many answers may fail in a row, for a reason other than that there is no driver, before all GPUs are closed.
	Patience int
	// Multiprocessors by model, as the driver spells it, for those that we do not know.
	Multiprocessors map[string]uint16
	// Clients is the most slices of one GPU without MIG. Each process of a slice is a client of MPS, of which drivers serve 48 to a GPU (from 590
	// on 60), so a pod of several processes takes several: this leaves room for them. At most 127.
	Clients uint8
	// SeveralNamespaces: soft slices of one GPU may be of pods of several namespaces.
	SeveralNamespaces bool
	// IgnoreToolkit: GPUs may be given out whatever NVIDIA's container toolkit is set to.
	IgnoreToolkit bool
	// Settle is for how long no other party must have offered GPUs before "auto" takes them, in seconds: a device plugin may just be starting.
	Settle int
}

// Defaults are the settings where nothing else is said.
func Defaults() Params {
	return Params{
		Owner: SettingAuto,
		// As NVIDIA's device plugin has them: an exception in a kernel, a fault of a page, a reset of a channel, a cleanup after that, a fault of
		// the video processor, a context switch that took too long.
		IgnoredXids: []int{13, 31, 43, 45, 68, 109},
		Calm:        3,
		Patience:    3,
		Clients:     24,
		Settle:      300,
	}
}
