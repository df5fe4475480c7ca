import { counted } from '@anchorhold/core/counted'
import { errnoWords } from '@anchorhold/core/errno-words'
import { exportVerifier, type Verdict, type VerifyCrypto } from '@anchorhold/core/verify-export'
import { Failure } from '@anchorhold/protocol/failures'
import type { Command } from 'commander'
import { createHash, createPublicKey, verify as verifySignature } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { Context } from '../context.ts'
import { path } from '../flags/values.ts'

/** No event comes near this: a longer line is no export of ours. */
const lineBytesMax = 256 * 1024 * 1024
/** RFC 8410: what stands before the 32 bytes of a public Ed25519 key. */
const spki = Buffer.from('302a300506032b6570032100', 'hex')

const crypto: VerifyCrypto = {
  sha256(...parts) {
    const hash = createHash('sha256')
    for (const part of parts) hash.update(part)
    return hash.digest('hex')
  },
  verify(key, message, signature) {
    const publicKey = createPublicKey({ key: Buffer.concat([spki, key]), format: 'der', type: 'spki' })
    return verifySignature(null, Buffer.from(message), publicKey, signature)
  },
}

/** Works without a daemon, and trusts nothing but the file and the key that is named. */
export function verify(program: Command, context: Context): void {
  program
    .command('verify')
    .summary('check an export: nothing changed, removed, added or reordered, and signed by whom; needs no daemon')
    .argument('<file>', 'what anchorhold export wrote', path)
    .option('--key <fingerprint>', 'the key that must have signed it, as anchorhold audit --key prints it')
    .option('--json', 'as JSON')
    .action(async (file: string, options: { key?: string; json?: true }) => {
      const key = options.key?.toLowerCase()
      if (key !== undefined && !/^[0-9a-f]{64}$/.test(key))
        throw new Failure('bad_request', `"${key}" is not a fingerprint of a key: it has 64 hexadecimal digits`)
      const verdict = await verifyFile(file, key)
      context.exit(verdict.intact ? 0 : 1)
      const { terminal } = context
      if (options.json) return terminal.line(JSON.stringify(verdict))
      for (const { line, kind, words } of verdict.problems)
        terminal.line(`${terminal.style('red', `line ${line}: ${kind}`)}  ${terminal.foreign(words)}`)
      const size = `${counted(verdict.logs, 'log')}, ${counted(verdict.events, 'event')}`
      if (!verdict.intact) return terminal.line(terminal.style('red', `✗ not intact (${size})`))
      const when = verdict.at === null ? '' : `, signed ${new Date(verdict.at).toISOString()}`
      terminal.line(`${terminal.style('green', '✓ intact')}: ${size}${when}`)
      for (const one of verdict.keys) terminal.line(`  by the key ${one}`)
      if (key === undefined)
        terminal.line(terminal.style('dim', '  Whose key that is, --key checks: anchorhold audit --key prints yours'))
    })
}

async function verifyFile(file: string, key: string | undefined): Promise<Verdict> {
  const verifier = exportVerifier(crypto, { key })
  let rest = Buffer.alloc(0)
  try {
    for await (const chunk of createReadStream(file, { highWaterMark: 1024 * 1024 }) as AsyncIterable<Buffer>) {
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      let from = 0
      for (let to = bytes.indexOf(10); to !== -1; to = bytes.indexOf(10, from)) {
        verifier.line(bytes.subarray(from, to))
        from = to + 1
      }
      rest = Buffer.from(bytes.subarray(from))
      if (rest.length > lineBytesMax) throw new Failure('too_large', `Cannot verify "${file}": it has a line without an end`)
    }
  } catch (error) {
    if (error instanceof Failure) throw error
    throw new Failure('bad_request', `Cannot read "${file}": ${errnoWords(error)}`)
  }
  if (rest.length > 0) verifier.line(rest)
  return verifier.end({ whole: rest.length === 0 })
}
