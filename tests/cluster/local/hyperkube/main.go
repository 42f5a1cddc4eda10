// The control plane and the kubelet in one binary, chosen by the name it is called by: one link instead of five.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controller "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var commands = map[string]any{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controller.NewControllerManagerCommand,
	"kube-scheduler":          scheduler.NewSchedulerCommand,
	"kubelet":                 kubelet.NewKubeletCommand,
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
}

// command calls a constructor. Which of them take a context, or a channel, differs from one release to the next.
func command(constructor any) *cobra.Command {
	function := reflect.ValueOf(constructor)
	var arguments []reflect.Value
	for i := range function.Type().NumIn() {
		kind := function.Type().In(i)
		switch {
		case function.Type().IsVariadic() && i == function.Type().NumIn()-1:
		case kind == reflect.TypeFor[context.Context]():
			arguments = append(arguments, reflect.ValueOf(context.Background()))
		default:
			arguments = append(arguments, reflect.Zero(kind))
		}
	}
	return function.Call(arguments)[0].Interface().(*cobra.Command)
}

func main() {
	name := filepath.Base(os.Args[0])
	constructor, known := commands[name]
	if !known {
		fmt.Fprintf(os.Stderr, "call this by the name of a Kubernetes component, not %s\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command(constructor)))
}
