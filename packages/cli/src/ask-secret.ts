import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'

/** Reads a line from the terminal without showing it. A secret never comes in as an argument: those are visible to everyone. */
export function askSecret(question: string): Promise<string> {
  process.stderr.write(question)
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const reader = createInterface({ input: process.stdin, output: silent, terminal: true })
  return new Promise((resolve) =>
    reader.question('', (answer) => {
      reader.close()
      process.stderr.write('\n')
      resolve(answer.trim())
    }),
  )
}
