import { Failure } from '@anchorhold/protocol/failures'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'

/** Reads a line from the terminal without showing it. A secret never comes in as an argument: those are visible to everyone. */
export function askSecret(question: string): Promise<string> {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const reader = createInterface({ input: process.stdin, output: silent, terminal: true })
  // Asked only now: before that the terminal would show what is typed.
  process.stderr.write(question)
  return new Promise((resolve, reject) => {
    let answer: string | null = null
    // The terminal passes the key on instead of interrupting, for as long as nothing is shown.
    reader.once('SIGINT', () => {
      process.stderr.write('\n')
      process.exit(130)
    })
    reader.once('close', () => {
      process.stderr.write('\n')
      if (answer !== null) return resolve(answer)
      reject(new Failure('bad_request', 'Nothing was given: the input ended', { hint: 'Type it and press Enter, or pipe it in' }))
    })
    reader.question('', (text) => {
      answer = text.trim()
      reader.close()
    })
  })
}
