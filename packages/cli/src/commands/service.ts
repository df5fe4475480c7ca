import { keepsCompiled } from '@anchorhold/core/compiled'
import { Failure } from '@anchorhold/protocol/failures'
import type { Command } from 'commander'
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { platform, userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Context } from '../context.ts'
import { type Daemon, findDaemon } from '../daemon.ts'
import { fromHere, homeFolder } from '../here.ts'
import { shutDown } from './up.ts'

/** What the daemon is started with by the system's own service manager. */
type Service = {
  readonly node: string
  readonly script: string
  readonly state: string | null
  /** What the daemon finds its folders by, where they are not the usual ones: a service manager knows nothing of a shell's variables. And
   *  where Node keeps what it has compiled, so that a daemon that died is back sooner. */
  readonly env: Readonly<Record<string, string>>
  readonly root: boolean
}

export function service(program: Command, context: Context): void {
  const command = program.command('service').summary('start the daemon with the machine')
  command
    .command('install')
    .summary('install a systemd unit (of the system for root, of the user otherwise) or a launchd agent')
    .option('--print', 'print it instead')
    .action(async (options: { print?: true }) => {
      const where = context.where()
      const root = process.getuid?.() === 0
      const one: Service = {
        node: process.execPath,
        script: join(dirname(fileURLToPath(import.meta.url)), 'daemon.mjs'),
        state: where.moved ? where.state : null,
        env: { ...(where.moved || root ? {} : movedBy(process.env)), ...keepsCompiled(where.state) },
        root,
      }
      const mac = platform() === 'darwin'
      const text = mac ? launchdPlist(one) : systemdUnit(one)
      const { terminal } = context
      if (options.print) return terminal.line(text.trimEnd())
      const path = unitPath({ mac, root })
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, text)
      terminal.line(`Wrote ${path}`)
      if (!mac && !hasSystemd()) {
        terminal.line('systemd does not run here. Where it does, start it with:')
        for (const line of systemdSteps(one.root)) terminal.line(`  ${line.join(' ')}`)
        return
      }
      const find = async () => findDaemon(where)
      const parts = { run, find, end: (daemon: Daemon) => shutDown(daemon, false), wait, user: userInfo().username }
      for (const line of await startService(parts, { mac, root: one.root, path })) terminal.line(line)
    })
  command
    .command('uninstall')
    .summary('end the daemon and remove what starts it; agents at work go on, and nothing of yours is removed')
    .action(async () => {
      const mac = platform() === 'darwin'
      const root = process.getuid?.() === 0
      const path = unitPath({ mac, root })
      if (!existsSync(path))
        throw new Failure('not_found', `There is no service at ${path}`, {
          hint: 'A daemon that was started by hand ends with: anchorhold down',
        })
      const remove = () => rmSync(path)
      if (mac || hasSystemd())
        for (const line of await endService({ run, remove }, { mac, root, path })) context.terminal.line(line)
      else {
        remove()
        context.terminal.line(`Removed ${path}`)
      }
    })
}

const unitPath = ({ mac, root }: { readonly mac: boolean; readonly root: boolean }): string =>
  mac
    ? join(homeFolder(), 'Library/LaunchAgents/anchorhold.plist')
    : root
      ? '/etc/systemd/system/anchorhold.service'
      : join(process.env.XDG_CONFIG_HOME || join(homeFolder(), '.config'), 'systemd/user/anchorhold.service')

const hasSystemd = () => existsSync('/run/systemd/system')
const run = async (file: string, args: readonly string[]) => (await promisify(execFile)(file, [...args])).stdout

/** The variables that move state and config of an ordinary user, as whole paths: a service stands in another folder. */
export const movedBy = (env: NodeJS.ProcessEnv): Readonly<Record<string, string>> =>
  Object.fromEntries(
    ['XDG_STATE_HOME', 'XDG_CONFIG_HOME'].flatMap((name) => {
      const folder = env[name] ?? ''
      return folder === '' ? [] : [[name, fromHere(folder)]]
    }),
  )

const systemdSteps = (root: boolean): readonly (readonly [string, ...string[]])[] => {
  const systemctl = ['systemctl', ...(root ? [] : ['--user'])] as [string, ...string[]]
  return [
    [...systemctl, 'daemon-reload'],
    [...systemctl, 'enable', 'anchorhold'],
    [...systemctl, 'restart', 'anchorhold'],
  ]
}

export type StartServiceParts<D extends { readonly pid: number | null }> = {
  /** Runs a program and gives what it said; throws when it fails. */
  readonly run: (file: string, args: readonly string[]) => Promise<string>
  readonly find: () => Promise<D | null>
  readonly end: (daemon: D) => Promise<unknown>
  readonly wait: (ms: number) => Promise<unknown>
  readonly user: string
}

const answerTries = 60
const answerEveryMs = 500

/** Has the service manager start the daemon, and says what was seen of it. A daemon that runs already is ended first: two cannot have
 *  one state folder, and the service's would leave at once. Agents at work go on. */
export async function startService<D extends { readonly pid: number | null }>(
  { run, find, end, wait: pause, user }: StartServiceParts<D>,
  { mac, root, path }: { readonly mac: boolean; readonly root: boolean; readonly path: string },
): Promise<readonly string[]> {
  const failed = (why: string) => new Failure('internal', `Cannot start the service: ${why}`, { hint: `The unit is at ${path}` })
  const steps = mac ? ([['launchctl', 'load', '-w', path]] as const) : systemdSteps(root)
  for (const [index, [file, ...args]] of steps.entries()) {
    // Only when the manager has shown that it can be reached: a house that runs is not ended for nothing.
    const running = index === steps.length - 1 ? await find() : null
    if (running !== null) await end(running)
    await run(file, args).catch((error: Error) => {
      throw failed(error.message.split('\n')[0] ?? '')
    })
  }
  let daemon: D | null = null
  for (let tries = 0; daemon === null && tries < answerTries; tries++) {
    daemon = await find()
    if (daemon === null) await pause(answerEveryMs)
  }
  if (daemon === null) throw failed('its daemon does not answer')
  if (mac) return [`The daemon is running (pid ${daemon.pid}), and starts when you log in.`]
  const main = (await run('systemctl', [...(root ? [] : ['--user']), 'show', '-p', 'MainPID', '--value', 'anchorhold'])).trim()
  if (main !== String(daemon.pid)) throw failed(`another daemon answers (pid ${daemon.pid}; the unit's is ${main})`)
  const here = `The daemon is running (pid ${daemon.pid})`
  if (root) return [`${here}, and starts with the machine.`]
  // Without lingering a user's units begin with the first login and end with the last.
  return run('loginctl', ['enable-linger', user]).then(
    () => [`${here}, and starts with the machine.`],
    () => [`${here} until you log out. To have it start with the machine:`, `  sudo loginctl enable-linger ${user}`],
  )
}

export type EndServiceParts = Pick<StartServiceParts<never>, 'run'> & {
  /** Takes the unit away. */
  readonly remove: () => void
}

/** Has the service manager end the daemon and forget it, and says so. A unit that the manager would still start stays. */
export async function endService(
  { run: runs, remove }: EndServiceParts,
  { mac, root, path }: { readonly mac: boolean; readonly root: boolean; readonly path: string },
): Promise<readonly string[]> {
  const systemctl = (...args: readonly string[]) => runs('systemctl', [...(root ? [] : ['--user']), ...args])
  await (mac ? runs('launchctl', ['unload', '-w', path]) : systemctl('disable', '--now', 'anchorhold')).catch((error: Error) => {
    throw new Failure('internal', `Cannot end the service: ${error.message.split('\n')[0] ?? ''}`, {
      hint: `The unit is at ${path}`,
    })
  })
  remove()
  if (!mac) await systemctl('daemon-reload').catch(() => '')
  return [`Removed ${path}`, 'The daemon was ended; agents at work go on. By hand it starts with: anchorhold up --detach']
}

/** Agents at work outlive the daemon, so only its own process is ended with the unit. */
export function systemdUnit({ node, script, state, env, root }: Service): string {
  // What systemd would take for its own: specifiers and escapes, and in commands variables (systemd.service(5), COMMAND LINES).
  const quoted = (word: string) => `"${word.replaceAll('%', '%%').replace(/["\\]/g, '\\$&')}"`
  const words = [node, '--disable-warning=ExperimentalWarning', script, ...(state === null ? [] : ['--state', state])]
  const command = words.map((word) => quoted(word).replaceAll('$', '$$$$')).join(' ')
  const variables = Object.entries(env).map(([name, value]) => `Environment=${quoted(`${name}=${value}`)}\n`)
  return `[Unit]
Description=Anchorhold, a home for coding agents
After=network.target

[Service]
${variables.join('')}ExecStart=${command}
Restart=on-failure
KillMode=process
Delegate=yes
NoNewPrivileges=${root ? 'no' : 'yes'}

[Install]
WantedBy=${root ? 'multi-user.target' : 'default.target'}
`
}

export function launchdPlist({ node, script, state, env }: Service): string {
  const escape = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  const words = [node, script, ...(state === null ? [] : ['--state', state])]
  const pairs = Object.entries(env).map(([name, value]) => `<key>${name}</key><string>${escape(value)}</string>`)
  const variables = pairs.length === 0 ? '' : `  <key>EnvironmentVariables</key><dict>${pairs.join('')}</dict>\n`
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>anchorhold</string>
  <key>ProgramArguments</key>
  <array>
${words.map((word) => `    <string>${escape(word)}</string>`).join('\n')}
  </array>
${variables}  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>AbandonProcessGroup</key><true/>
</dict>
</plist>
`
}
