import { chmodSync, existsSync, mkdtempSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { rehearsal } from '@anchorhold/rehearsal/server'
import { agentContract } from '../contract.ts'
import { claudeDriver } from './claude.ts'

const sdk = dirname(createRequire(import.meta.url).resolve('@anthropic-ai/claude-agent-sdk'))
const name = `claude-agent-sdk-${process.platform}-${process.arch}`
const program = [name, `${name}-musl`].map((one) => join(sdk, '..', one, 'claude')).find((path) => existsSync(path))!
const rubbish = join(mkdtempSync(join(tmpdir(), 'rubbish-')), 'claude')
writeFileSync(rubbish, '#!/bin/sh\nhead -c 100000 /dev/urandom\necho\necho \'{"type":"assistant"}\'\necho \'[]\'\n')
chmodSync(rubbish, 0o755)

const script = (...steps: readonly unknown[]) => `SCRIPT64:${Buffer.from(JSON.stringify(steps)).toString('base64')}:END`
const bash = (command: string) => ({ tool_use: 'Bash', input: { command } })
const options = ['first', 'second'].map((label) => ({ label: `the ${label}`, description: '' }))
const question = { question: 'Which one?', header: 'Which', multiSelect: false, options }

agentContract(claudeDriver, {
  files: { program, node: process.execPath, forwarder: '/forwarder', reader: '/reader' },
  rubbish,
  async model(windows) {
    const model = await rehearsal(join(windows, 'model.sock'))
    return { [Symbol.asyncDispose]: () => model.close() }
  },
  say: (words) => `say ${words}`,
  run: (command) => script(bash(command), { text: 'done' }),
  question: script({ tool_use: 'AskUserQuestion', input: { questions: [question] } }, { text: 'done' }),
  recall: 'what did I ask you',
})
