#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stands for kube-scheduler where only its questions matter: for each pod filter, prioritize, bind, one pod after another,
ties by lot as the real one has them.

        scheduler.py SOCKET NODES UNITS SEED COUNT:SIZE...      against nodes n0.. that the extender knows

Asks for COUNT pods of each SIZE, mixed by SEED; they must exist as SIZE-K at the API server (--pods prints them). Says one
line of JSON: how many were bound, what was refused, and what is free in gaps smaller than the smallest SIZE."""
import http.client
import json
import random
import socket
import sys


class Extender(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("extender")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)

    def ask(self, verb, question):
        self.request("POST", verb, json.dumps(question), {"Content-Type": "application/json"})
        return json.loads(self.getresponse().read())


def pod(size, k):
    name = f"pod-{size}-{k}"
    limits = {"sublet.dev/gpu-mem": str(size)}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}


def pods_of(mix):
    return [(size, pod(size, k)) for count, size in mix for k in range(count)]


def schedule(extender, nodes, one, lot):
    filtered = extender.ask("/filter", {"Pod": one, "Nodes": None, "NodeNames": nodes})
    if not filtered["NodeNames"]:
        return sorted(set(filtered["FailedNodes"].values()))[0]
    scores = extender.ask("/prioritize", {"Pod": one, "Nodes": None, "NodeNames": filtered["NodeNames"]})
    best = max(s["Score"] for s in scores)
    node = lot.choice([s["Host"] for s in scores if s["Score"] == best])
    meta = one["metadata"]
    return extender.ask("/bind", {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"],
                                  "Node": node})["Error"]


def free_of(extender):
    extender.request("GET", "/inspect")
    nodes = json.loads(extender.getresponse().read())["nodes"]
    return [device["totalGPU"] - device["usedGPU"] for node in nodes for device in node["devs"]]


def main(arguments):
    mix = [tuple(int(n) for n in text.split(":")) for text in arguments if ":" in text]
    pods = pods_of(mix)
    if arguments[0] == "--pods":
        print(json.dumps([one for _, one in pods]))
        return
    path, n_nodes, units, seed = arguments[0], int(arguments[1]), int(arguments[2]), int(arguments[3])
    lot = random.Random(seed)
    lot.shuffle(pods)
    extender = Extender(path)
    nodes = [f"n{i}" for i in range(n_nodes)]
    said = [schedule(extender, nodes, one, lot) for _, one in pods]
    free = free_of(extender)
    smallest = min(size for _, size in mix)
    stranded = sum(f for f in free if f < smallest)
    print(json.dumps({"bound": said.count(""), "refused": [s for s in said if s][:3], "free": sum(free),
                      "whole": free.count(units), "stranded_permille": stranded * 1000 // (units * len(free))}))


main(sys.argv[1:])
