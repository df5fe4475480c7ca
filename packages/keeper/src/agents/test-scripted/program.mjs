#!/usr/bin/env node
// A coding agent for tests, without a model: it reads a line of JSON for each thing it is told, and writes one for each that it does.
//   program.mjs CONVERSATION
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const conversation = process.argv[2]
const kept = existsSync(conversation) ? JSON.parse(readFileSync(conversation, 'utf8')) : []
const tell = (told) => process.stdout.write(`${JSON.stringify(told)}\n`)
const answers = new Map()
let queue = []
let running = null
let calls = 0

tell({ remembers: existsSync(conversation), prompts: kept.map(({ id }) => id) })
createInterface({ input: process.stdin }).on('line', (line) => hear(JSON.parse(line)))

function hear(told) {
  if (told.prompt !== undefined) {
    queue.push(told.prompt)
    if (running === null) void work()
  } else if (told.answer !== undefined) answers.get(told.answer)?.(told)
  else if (told.ping !== undefined) tell({ pong: told.ping })
  else if (told.interrupt !== undefined) {
    tell({ interrupted: told.interrupt, letGo: queue.map(({ id }) => id) })
    queue = []
    running?.stop()
  }
}

/** Asks what stands outside, and waits for the answer. */
function ask(question) {
  const call = `call-${++calls}`
  tell({ ...question, call })
  return new Promise((resolve) => answers.set(call, (answer) => resolve({ ...answer, call })))
}

async function work() {
  running = { stop: () => {} }
  tell({ state: 'running' })
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    kept.push(next)
    writeFileSync(conversation, JSON.stringify(kept))
    const ok = await carryOut(next.text)
    tell({ result: next.id, ok })
  }
  running = null
  tell({ state: 'idle' })
}

async function carryOut(text) {
  const [, verb, rest] = /^(\w+) ?([^]*)$/.exec(text) ?? []
  if (verb === 'say') say(rest)
  else if (verb === 'recall') say(kept.map((one) => one.text).join('\n'))
  else if (verb === 'ask') say(`they chose ${(await ask({ ask: rest })).chosen}`)
  else if (verb === 'run') return run(rest)
  return true
}

function say(text) {
  const block = `block-${++calls}`
  for (let at = 0; at < text.length; at += 5) tell({ delta: text.slice(at, at + 5), block, offset: at })
  tell({ said: text, block })
}

async function run(command) {
  const { call, allow, why } = await ask({ use: command })
  if (!allow) {
    tell({ done: call, output: why, failed: true })
    return true
  }
  const child = spawn('sh', ['-c', command], { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (more) => (output += more))
  let stopped = false
  running.stop = () => (stopped = child.kill('SIGKILL'))
  const code = await new Promise((resolve) => child.once('close', resolve))
  tell({ done: call, output, failed: code !== 0 })
  return !stopped
}
