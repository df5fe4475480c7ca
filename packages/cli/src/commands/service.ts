import { Failure } from '@anchorhold/protocol/failures'
import type { Command } from 'commander'
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { homedir, platform } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Context } from '../context.ts'

/** What the daemon is started with by the system's own service manager. */
type Service = { readonly node: string; readonly script: string; readonly state: string | null; readonly root: boolean }

export function service(program: Command, context: Context): void {
  const command = program.command('service').summary('start the daemon with the machine')
  command
    .command('install')
    .summary('install a systemd unit (of the system for root, of the user otherwise) or a launchd agent')
    .option('--print', 'print it instead')
    .action(async (options: { print?: true }) => {
      const where = context.where()
      const one: Service = {
        node: process.execPath,
        script: join(dirname(fileURLToPath(import.meta.url)), 'daemon.mjs'),
        state: where.moved ? where.state : null,
        root: process.getuid?.() === 0,
      }
      const mac = platform() === 'darwin'
      const text = mac ? launchdPlist(one) : systemdUnit(one)
      const { terminal } = context
      if (options.print) return terminal.line(text.trimEnd())
      const path = mac
        ? join(homedir(), 'Library/LaunchAgents/anchorhold.plist')
        : one.root
          ? '/etc/systemd/system/anchorhold.service'
          : join(process.env.XDG_CONFIG_HOME ?? join(homedir(), '.config'), 'systemd/user/anchorhold.service')
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, text)
      terminal.line(`Wrote ${path}`)
      const start: readonly (readonly [string, ...string[]])[] = mac
        ? [['launchctl', 'load', '-w', path]]
        : [
            ['systemctl', ...(one.root ? [] : ['--user']), 'daemon-reload'],
            ['systemctl', ...(one.root ? [] : ['--user']), 'enable', '--now', 'anchorhold'],
          ]
      if (!mac && !existsSync('/run/systemd/system')) {
        terminal.line('systemd does not run here. Where it does, start it with:')
        for (const line of start) terminal.line(`  ${line.join(' ')}`)
        return
      }
      for (const [file, ...args] of start) {
        await promisify(execFile)(file, args).catch((error: Error) => {
          throw new Failure('internal', `Cannot start the service: ${error.message.split('\n')[0]}`, {
            hint: `The unit is at ${path}`,
          })
        })
      }
      terminal.line('The daemon runs, and starts with the machine.')
    })
}

/** Agents at work outlive the daemon, so only its own process is ended with the unit. */
export function systemdUnit({ node, script, state, root }: Service): string {
  const quoted = [node, '--disable-warning=ExperimentalWarning', script, ...(state === null ? [] : ['--state', state])].map(
    // What systemd would take for its own: specifiers, variables, escapes (systemd.service(5), COMMAND LINES).
    (word) => `"${word.replaceAll('%', '%%').replaceAll('$', '$$$$').replace(/["\\]/g, '\\$&')}"`,
  )
  return `[Unit]
Description=Anchorhold, a home for coding agents
After=network.target

[Service]
ExecStart=${quoted.join(' ')}
Restart=on-failure
KillMode=process
Delegate=yes
NoNewPrivileges=${root ? 'no' : 'yes'}

[Install]
WantedBy=${root ? 'multi-user.target' : 'default.target'}
`
}

export function launchdPlist({ node, script, state }: Service): string {
  const escape = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  const words = [node, script, ...(state === null ? [] : ['--state', state])]
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>anchorhold</string>
  <key>ProgramArguments</key>
  <array>
${words.map((word) => `    <string>${escape(word)}</string>`).join('\n')}
  </array>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>AbandonProcessGroup</key><true/>
</dict>
</plist>
`
}
