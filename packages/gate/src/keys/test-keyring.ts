import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

export const hasKeyring = ['/usr/bin/secret-tool', '/usr/bin/gnome-keyring-daemon', '/usr/bin/dbus-daemon'].every((path) =>
  existsSync(path),
)

/** GNOME Keyring on a bus of its own, unlocked, as a login makes it. */
export interface TestKeyring extends AsyncDisposable {
  /** How programs reach it. */
  readonly env: Readonly<Record<string, string>>
  lock(): Promise<void>
}

/** @param user whose it is, where root starts it for somebody else */
export async function testKeyring(user?: { readonly uid: number; readonly gid: number }): Promise<TestKeyring> {
  const home = mkdtempSync(join(tmpdir(), 'ah-gnome-'))
  if (user !== undefined) chownSync(home, user.uid, user.gid)
  const path = { PATH: '/usr/bin:/bin' }
  const bus = spawn('/usr/bin/dbus-daemon', ['--session', '--nofork', '--print-address=1'], {
    ...user,
    env: { ...path, HOME: home },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [address] = (await once(bus.stdout, 'data')) as [Buffer]
  const env = { DBUS_SESSION_BUS_ADDRESS: String(address).trim(), HOME: home, XDG_RUNTIME_DIR: home }
  const ring = spawn('/usr/bin/gnome-keyring-daemon', ['--foreground', '--unlock', '--components=secrets'], {
    ...user,
    env: { ...env, ...path },
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  ring.stdin.end('a password')
  /** One call over the bus, and its answer. */
  const asked = async (dest: string, object: string, method: string, argument: string): Promise<string> => {
    const call = ['--session', '--print-reply', `--dest=${dest}`, object, method, argument]
    return (await promisify(execFile)('/usr/bin/dbus-send', call, { ...user, env: { ...env, ...path }, timeout: 5000 })).stdout
  }
  const isUp = () => asked('org.freedesktop.DBus', '/', 'org.freedesktop.DBus.NameHasOwner', 'string:org.freedesktop.secrets')
  while (!(await isUp()).includes('true'));
  return {
    env,
    async lock() {
      const everything = 'array:objpath:/org/freedesktop/secrets/aliases/default'
      await asked('org.freedesktop.secrets', '/org/freedesktop/secrets', 'org.freedesktop.Secret.Service.Lock', everything)
    },
    async [Symbol.asyncDispose]() {
      const ended = [bus, ring].flatMap((one) => (one.exitCode === null ? [once(one, 'exit')] : []))
      for (const one of [ring, bus]) one.kill('SIGKILL')
      await Promise.all(ended)
      rmSync(home, { recursive: true, force: true })
    },
  }
}
