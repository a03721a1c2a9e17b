package agent_test

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

var (
	createOptions metav1.CreateOptions
	listOptions   metav1.ListOptions
)
