#!/usr/bin/env node
// Hands over to the pinned Node, after bringing a clone to where it can run.
import { spawn } from 'node:child_process'
import * as module from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { pinnedNode, provideBubblewrap, setUp, startsCells } from './setup.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const cli = join(root, 'dist', 'cli.mjs')
// Beside the program: in the folder for temporary files, where Node would have it, somebody else could lay code for this one.
const compiled = join(root, '.compiled')
try {
  await setUp()
  if (startsCells(process.argv.slice(2))) await provideBubblewrap()
  const node = pinnedNode()
  if (node === process.execPath) {
    module.enableCompileCache?.(compiled)
    await import(pathToFileURL(cli).href)
  } else {
    const env = { NODE_COMPILE_CACHE: compiled, ...process.env }
    const child = spawn(node, [cli, ...process.argv.slice(2)], { stdio: 'inherit', env })
    // A terminal sends these two to both; what another program sends to this one is passed on.
    process.on('SIGTERM', () => child.kill('SIGTERM'))
    for (const signal of ['SIGINT', 'SIGHUP']) process.on(signal, () => process.stdin.isTTY || child.kill(signal))
    child.once('exit', (code, signal) => (signal === null ? process.exit(code) : process.kill(process.pid, signal)))
  }
} catch (error) {
  console.error(`anchorhold: ${error.message}`)
  process.exit(1)
}
