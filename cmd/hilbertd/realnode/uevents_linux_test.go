package realnode

import "testing"

func TestAboutMachine(t *testing.T) {
	for message, want := range map[string]bool{
		"offline@/devices/system/cpu/cpu4\x00ACTION=offline\x00DEVPATH=/devices/system/cpu/cpu4\x00SUBSYSTEM=cpu\x00SEQNUM=7\x00": true,
		"online@/devices/system/memory/memory40\x00ACTION=online\x00SUBSYSTEM=memory\x00":                                         true,
		"add@/devices/system/node/node1\x00SUBSYSTEM=node\x00":                                                                    true,
		"change@/devices/virtual/block/dm-0\x00SUBSYSTEM=block\x00DM_NAME=cpu\x00":                                                false,
		"": false,
	} {
		if got := aboutMachine([]byte(message)); got != want {
			t.Errorf("%q: %v", message, got)
		}
	}
}
