// Package e2e runs Kubernetes' own end-to-end tests from a program of ours. Its commands link a part of upstream's specs each, so that the one that judges
// the scheduler alone stays small enough for every change; "hilbert-lab e2e" runs them against both schedulers.
//
// It is a module of its own, because the specs bring dependencies that nothing else of the lab needs. The specs are upstream's, unchanged, from the module
// cache. What is ours is only the frame: flags as upstream's e2e.test has them, the checks before the first spec, and one report as JSON
// (--ginkgo.json-report).
//
// Invariant: a spec that does not run is in the report as skipped, with its reason. Example:
//
//	e2e-scheduling --kubeconfig KUBECONFIG --provider=skeleton --ginkgo.focus='sig-scheduling' --ginkgo.json-report=report.json
//
// It is no test of Hilbert that knows anything about Hilbert.
package e2e

import (
	"context"
	"flag"
	"os"
	"sync/atomic"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	e2enode "k8s.io/kubernetes/test/e2e/framework/node"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	e2etestingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"

	// What upstream's own program links in besides the specs: these hook the framework up.
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/metrics/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/utils/ktesting/format"
)

// outcome is what ginkgo tells of a run. It takes the place of a testing.T.
type outcome struct{ failed atomic.Bool }

// Fail implements ginkgo.GinkgoTestingT.
func (o *outcome) Fail() { o.failed.Store(true) }

// Main parses the command line, runs the specs that are linked in and that it chooses, and ends the process: with status 1 if one failed.
func Main() {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(e2etestingmanifests.GetE2ETestingManifestsFS())
	framework.AfterReadingAllFlags(&framework.TestContext)

	logs.InitLogs()
	klog.EnableContextualLogging(true)
	gomega.RegisterFailHandler(framework.Fail)
	ginkgo.BeforeSuite(prepare)
	suite, reporter := framework.CreateGinkgoConfig()
	o := &outcome{}
	passed := ginkgo.RunSpecs(o, "Kubernetes e2e suite", suite, reporter)
	logs.FlushLogs()
	if !passed || o.failed.Load() {
		os.Exit(1)
	}
}

// prepare is upstream's setup of a suite, as far as it means something where no cloud is and no image is pulled.
func prepare(ctx context.Context) {
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err, "client for the cluster")
	framework.ExpectNoError(e2enode.WaitForAllNodesSchedulable(ctx, client, framework.NewTimeoutContext().NodeSchedulable))
	if framework.TestContext.CloudConfig.NumNodes == framework.DefaultNumNodes {
		nodes, err := e2enode.GetReadySchedulableNodes(ctx, client)
		framework.ExpectNoError(err)
		framework.TestContext.CloudConfig.NumNodes = len(nodes.Items)
	}
	framework.TestContext.IPFamily = "ipv4"
}
