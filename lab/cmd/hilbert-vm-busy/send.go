package main

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// datagram is what one packet carries, sendInterval how often those that are due are sent.
const datagram, sendInterval = 1400, 10 * time.Millisecond

// sendUntilEnd sends packets to an address at a rate until the container shall end. What the kernel refuses is not sent again.
func sendUntilEnd(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("send wants an address and a rate\n%s", usage)
	}
	kibibytes, err := strconv.Atoi(args[1])
	if err != nil || kibibytes < 1 {
		return fmt.Errorf("%q is no number of kibibytes\n%s", args[1], usage)
	}
	connection, err := net.Dial("udp", args[0])
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	go func() {
		packet, sent, begin := make([]byte, datagram), 0, time.Now()
		for range time.Tick(sendInterval) {
			for due := int(time.Since(begin).Seconds() * float64(kibibytes<<10)); sent < due; sent += datagram {
				_, _ = connection.Write(packet)
			}
		}
	}()
	awaitEnd(append([]string{"send"}, args...))
	return nil
}
