import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { agentContract } from '../contract.ts'
import { scriptedDriver } from './driver.ts'

const rubbish = join(mkdtempSync(join(tmpdir(), 'rubbish-')), 'program.mjs')
writeFileSync(rubbish, `process.stdout.write('{"result":"nobody"}\\n[]\\n' + 'x'.repeat(100000)); process.stdin.resume()\n`)

agentContract(scriptedDriver, {
  files: {
    program: join(import.meta.dirname, 'program.mjs'),
    node: process.execPath,
    forwarder: '/forwarder',
    reader: '/reader',
  },
  rubbish,
  say: (words) => `say ${words}`,
  run: (command) => `run ${command}`,
  question: 'ask Which one?',
  recall: 'recall',
})
