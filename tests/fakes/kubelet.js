#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// Stands for a kubelet from 1.28 on, with grpc-js: HTTP/2 and protobuf of a third kind, which knows cdi_devices. Speaks as
// kubelet.py does:
//
//      NODE_PATH=.../node_modules kubelet.js DIR       serves Registration at DIR/kubelet.sock; a command a line, an answer a line
//
//      wait RESOURCE [N]               until RESOURCE is registered (for the Nth time), and its list has come
//      list RESOURCE                   "TOTAL HEALTHY" of the newest list
//      options RESOURCE                what GetDevicePluginOptions answers, as JSON
//      prefer RESOURCE SIZE [ID...]    of all ids but those
//      allocate RESOURCE ID[,ID...]... the answer as JSON, a container for each word; or "error CODE TEXT"
//      prestart RESOURCE ID...         "ok"; or "error CODE TEXT"
//      storm RESOURCE N ID...          N allocations at once on one connection: how many were answered well
//      cancel RESOURCE                 ends the stream of lists and begins another: "ok" when a list comes
//      restart                         as kubelet restarts: the folder is emptied, and it listens anew
'use strict'
const fs = require('fs')
const path = require('path')
const grpc = require('@grpc/grpc-js')
const loader = require('@grpc/proto-loader')

const proto = grpc.loadPackageDefinition(
        loader.loadSync(path.join(__dirname, 'deviceplugin.proto'), { keepCase: true, longs: Number })).v1beta1
const folder = process.argv[2]
const plugins = new Map(), seen = new Map()
const sleep = ms => new Promise(done => setTimeout(done, ms))
let server

const call = (name, method, request) => new Promise((done, failed) =>
        plugins.get(name).client[method](request, { deadline: Date.now() + 10000 }, (error, answer) => error ? failed(error) : done(answer)))

function follow(plugin) {
        plugin.stream = plugin.client.ListAndWatch({})
        plugin.stream.on('data', answer => { plugin.list = answer.devices; plugin.lists++ })
        plugin.stream.on('error', () => {})
}

// Kubelet dials back before it answers.
async function register({ request }, answer) {
        if (request.version !== 'v1beta1')
                return answer({ code: grpc.status.INVALID_ARGUMENT, details: 'version' })
        const name = request.resource_name
        const client = new proto.DevicePlugin('unix:' + path.join(folder, request.endpoint), grpc.credentials.createInsecure())
        const plugin = { client, list: [], lists: 0 }
        plugins.get(name)?.client.close()
        plugins.set(name, plugin)
        try {
                plugin.options = await call(name, 'GetDevicePluginOptions', {})
        } catch (error) {
                return answer(error)
        }
        seen.set(name, (seen.get(name) || 0) + 1)
        follow(plugin)
        answer(null, {})
}

function begin() {
        server = new grpc.Server()
        server.addService(proto.Registration.service, { Register: register })
        return new Promise((done, failed) =>
                server.bindAsync('unix:' + path.join(folder, 'kubelet.sock'), grpc.ServerCredentials.createInsecure(),
                        error => error ? failed(error) : done()))
}

const commands = {
        async wait(name, times = '1') {
                for (let i = 0; i < 200; i++, await sleep(100))
                        if ((seen.get(name) || 0) >= Number(times) && plugins.get(name)?.lists)
                                return 'ok'
                return 'never'
        },
        list(name) {
                const { list } = plugins.get(name)
                return `${list.length} ${list.filter(row => row.health === 'Healthy').length}`
        },
        options: name => JSON.stringify(plugins.get(name).options),
        async prefer(name, size, ...without) {
                const ids = plugins.get(name).list.map(row => row.ID).filter(id => !without.includes(id))
                const answer = await call(name, 'GetPreferredAllocation',
                        { container_requests: [{ available_deviceIDs: ids, allocation_size: Number(size) }] })
                return answer.container_responses[0].deviceIDs.join(' ')
        },
        async allocate(name, ...containers) {
                const answer = await call(name, 'Allocate', { container_requests: containers.map(ids => ({ devicesIDs: ids.split(',') })) })
                return JSON.stringify(answer.container_responses)
        },
        async prestart(name, ...ids) {
                await call(name, 'PreStartContainer', { devicesIDs: ids })
                return 'ok'
        },
        async storm(name, n, ...ids) {
                const all = Array.from({ length: Number(n) }, () => call(name, 'Allocate', { container_requests: [{ devicesIDs: ids }] }))
                return String((await Promise.allSettled(all)).filter(one => one.status === 'fulfilled').length)
        },
        async cancel(name) {
                const plugin = plugins.get(name)
                plugin.stream.cancel()
                plugin.lists = 0
                follow(plugin)
                return commands.wait(name)
        },
        async restart() {
                server.forceShutdown()
                for (const plugin of plugins.values())
                        plugin.client.close()
                plugins.clear()
                for (const name of fs.readdirSync(folder))
                        fs.unlinkSync(path.join(folder, name))
                await begin()
                return 'ok'
        },
}

async function main() {
        await begin()
        console.log('ready')
        for await (const line of require('readline').createInterface({ input: process.stdin })) {
                const [command, ...words] = line.split(' ')
                try {
                        console.log(await commands[command](...words))
                } catch (error) {
                        console.log('error', error.code, String(error.details || error).replace(/\n/g, ' '))
                }
        }
        process.exit(0)
}

main()
