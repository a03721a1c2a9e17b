// Package configuration tests hilbertd's role controller on a real API server, with the account, the permissions and the policies of deploy/: a NodeConfiguration
// reaches nodes step by step, and one that harms is taken back.
//
// The agents are stand-ins that answer what they are told as the agent does: node/configuration.go is tested for itself.
package configuration
