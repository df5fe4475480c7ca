import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { printable } from '@anchorhold/core/printable'
import { Failure } from '@anchorhold/protocol/failures'
import { keyBytes } from './secrets.ts'

/** The keyring of the owner's desktop, reached by the program that the system has for it. */
export type Keyring = {
  read(name: string): Promise<Uint8Array | null>
  write(name: string, key: Uint8Array): Promise<void>
  remove(name: string): Promise<void>
}

/** One run of that program. Invariant: a key is on its standard input or output, and never among its arguments, which anybody can read. */
export type KeyringCall = { readonly argv: readonly [string, ...string[]]; readonly input: string }

/** How each system's program is asked, and the exit codes by which it says that there is no such entry. */
export type KeyringProgram = {
  readonly read: (account: string) => KeyringCall
  readonly write: (account: string, key: string) => KeyringCall
  readonly remove: (account: string) => KeyringCall
  readonly absent: readonly number[]
  readonly remedy: string
}

const service = 'anchorhold'

/** secret-tool(1) of libsecret, which speaks to GNOME Keyring, KWallet and KeePassXC. */
export const secretTool: KeyringProgram = {
  read: (account) => ({ argv: ['secret-tool', 'lookup', 'service', service, 'account', account], input: '' }),
  write: (account, key) => ({
    argv: ['secret-tool', 'store', '--label=Anchorhold key', 'service', service, 'account', account],
    input: key,
  }),
  remove: (account) => ({ argv: ['secret-tool', 'clear', 'service', service, 'account', account], input: '' }),
  absent: [1],
  remedy: 'Install libsecret-tools, log in to a desktop whose keyring is unlocked, and start Anchorhold from there',
}

/** security(1) of macOS. It takes whole commands on its standard input, which is the one way to hand it a password past its arguments. */
export const securityTool: KeyringProgram = {
  read: (account) => ({ argv: ['/usr/bin/security', 'find-generic-password', '-s', service, '-a', account, '-w'], input: '' }),
  write: (account, key) => ({
    argv: ['/usr/bin/security', '-i'],
    input: `add-generic-password -U -s ${quoted(service)} -a ${quoted(account)} -w ${quoted(key)}\n`,
  }),
  remove: (account) => ({ argv: ['/usr/bin/security', 'delete-generic-password', '-s', service, '-a', account], input: '' }),
  absent: [44],
  remedy: 'Unlock the login keychain: security unlock-keychain',
}
const quoted = (word: string) => `"${word.replace(/[\\"]/g, '\\$&')}"`

/** A keyring that asks somebody for its password is not waited for longer. */
const callMs = 15_000

/** Keys below `account`, kept as hexadecimal. What fails says why, and never that there is no key. */
export function keyring(
  program: KeyringProgram,
  account: string,
  env: Readonly<Record<string, string>>,
  timeoutMs = callMs,
): Keyring {
  const fail = (what: string, why: string) =>
    new Failure('gate_unavailable', `Cannot ${what} the key in the keyring: ${why}`, { hint: program.remedy })
  const at = (name: string) => `${account}/${name}`

  async function run(what: string, { argv, input }: KeyringCall): Promise<{ readonly code: number; readonly out: string }> {
    const [file, ...args] = argv
    const child = spawn(file, args, { env, cwd: '/', stdio: ['pipe', 'pipe', 'pipe'], timeout: timeoutMs, killSignal: 'SIGKILL' })
    child.stdin.on('error', () => {})
    child.stdin.end(input)
    const ended = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
    const [code, out, err] = await Promise.all([ended, text(child.stdout), text(child.stderr)]).catch((error: unknown) => {
      throw fail(
        what,
        error instanceof Error && 'code' in error && error.code === 'ENOENT' ? `there is no ${file}` : String(error),
      )
    })
    if (code === null) throw fail(what, 'it does not answer, as one does that is locked')
    const words = printable(err.trim().split('\n')[0] ?? '').slice(0, 300)
    // Who finds nothing says nothing beside it, unless it has a code for that alone.
    if (code !== 0 && !(program.absent.includes(code) && (words === '' || code !== 1)))
      throw fail(what, words === '' ? `${file} ended with code ${code}` : words)
    return { code, out }
  }
  async function read(name: string): Promise<Uint8Array | null> {
    const { code, out } = await run('find', program.read(at(name)))
    if (code !== 0 || out.trim() === '') return null
    if (!/^[0-9a-f]+$/.test(out.trim()) || out.trim().length !== 2 * keyBytes)
      throw fail('use', `what it holds is not ${keyBytes} bytes in hexadecimal`)
    return Buffer.from(out.trim(), 'hex')
  }
  return {
    read,
    async write(name, key) {
      const hex = Buffer.from(key).toString('hex')
      const { code } = await run('store', program.write(at(name), hex))
      const found = code === 0 ? await read(name) : null
      if (found === null || !Buffer.from(found).equals(key))
        throw fail('store', 'it was not there afterwards, as in one that is locked')
    },
    async remove(name) {
      await run('remove', program.remove(at(name)))
    },
  }
}
