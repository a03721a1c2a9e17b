// Package lint holds the promises that the layout makes: which package may
// import which, what core may not touch, and how a package introduces itself.
//
// Each promise is a row in the table in rules_test.go with its reason beside
// it. TestTree holds the rows against the source of every module of the
// project; TestFixtures holds each row against small trees in testdata that
// break it, and TestEveryRuleFires fails for a row that no fixture can break.
//
// It reads source, all build tags included, and never type-checks it. It is
// not a style checker: taste belongs to .golangci.yml.
package lint
