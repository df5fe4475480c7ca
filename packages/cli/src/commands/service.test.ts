import { expect, test } from 'vitest'
import { endService, launchdPlist, movedBy, startService, systemdUnit } from './service.ts'

const one = { node: '/opt/node', script: '/opt/ah/dist/daemon.mjs', state: null, env: {}, root: false }

test('systemdUnit() ends only the daemon with the unit, so that agents go on', () => {
  expect(systemdUnit(one)).toBe(`[Unit]
Description=Anchorhold, a home for coding agents
After=network.target

[Service]
ExecStart="/opt/node" "--disable-warning=ExperimentalWarning" "/opt/ah/dist/daemon.mjs"
Restart=on-failure
KillMode=process
Delegate=yes
NoNewPrivileges=yes

[Install]
WantedBy=default.target
`)
})

test('systemdUnit() of root belongs to the system, and may become other users', () => {
  const unit = systemdUnit({ ...one, root: true, state: '/srv/ah' })
  expect(unit).toContain('"--state" "/srv/ah"\n')
  expect(unit).toContain('NoNewPrivileges=no\n')
  expect(unit).toContain('WantedBy=multi-user.target\n')
})

test('systemdUnit() leaves nothing of a path for systemd to interpret', () => {
  expect(systemdUnit({ ...one, state: '/a b/%h/$HOME/"x"\\' })).toContain('"--state" "/a b/%%h/$$HOME/\\"x\\"\\\\"\n')
})

test('a service is told where a shell has moved state and config, as systemd and launchd read it', () => {
  const env = movedBy({ XDG_STATE_HOME: '/a b/%h/$X/"x"', XDG_CONFIG_HOME: 'c & d', HOME: '/home/ada' })
  expect(env).toEqual({ XDG_STATE_HOME: '/a b/%h/$X/"x"', XDG_CONFIG_HOME: `${process.cwd()}/c & d` })
  expect(movedBy({ XDG_STATE_HOME: '', HOME: '/home/ada' })).toEqual({})
  const unit = systemdUnit({ ...one, env })
  expect(unit).toContain('Environment="XDG_STATE_HOME=/a b/%%h/$X/\\"x\\""\n')
  expect(unit).toContain(`Environment="XDG_CONFIG_HOME=${process.cwd()}/c & d"\nExecStart=`)
  expect(launchdPlist({ ...one, env })).toContain(
    `<key>XDG_CONFIG_HOME</key><string>${process.cwd()}/c &amp; d</string></dict>\n  <key>RunAtLoad</key>`,
  )
})

test('launchdPlist() escapes what XML would take for its own', () => {
  const plist = launchdPlist({ ...one, state: '/a & b/<c>' })
  expect(plist).toContain('    <string>/a &amp; b/&lt;c></string>\n')
  expect(plist).toContain('<key>AbandonProcessGroup</key><true/>')
})

/** A machine with systemd: what was run on it, and which daemon answers. */
function machine({ before = null as number | null, unit = 7, main = '7\n', linger = true, isDeaf = false, busless = false }) {
  const ran: string[] = []
  let pid = before
  const parts = {
    async run(file: string, args: readonly string[]) {
      ran.push([file, ...args].join(' '))
      if (busless) throw new Error('no bus')
      if (args.includes('restart') && !isDeaf) pid ??= unit
      if (file === 'loginctl' && !linger) throw new Error('Access denied')
      return args.includes('MainPID') ? main : ''
    },
    find: async () => (pid === null ? null : { pid }),
    end: async ({ pid: ended }: { readonly pid: number | null }) => {
      ran.push(`end ${ended}`)
      pid = null
    },
    wait: async () => {},
    user: 'ada',
  }
  return { ran, start: (root = false) => startService(parts, { mac: false, root, path: '/unit' }) }
}

test('startService() ends the daemon that runs, lets the unit linger, and says what it saw', async () => {
  const it = machine({ before: 5 })
  expect(await it.start()).toEqual(['The daemon is running (pid 7), and starts with the machine.'])
  expect(it.ran.slice(0, 4)).toEqual([
    'systemctl --user daemon-reload',
    'systemctl --user enable anchorhold',
    'end 5',
    'systemctl --user restart anchorhold',
  ])
  expect(it.ran.at(-1)).toBe('loginctl enable-linger ada')
})

test('startService() says how to start with the machine where lingering is refused, and root needs none', async () => {
  expect(await machine({ linger: false }).start()).toEqual([
    'The daemon is running (pid 7) until you log out. To have it start with the machine:',
    '  sudo loginctl enable-linger ada',
  ])
  const root = machine({})
  expect(await root.start(true)).toEqual(['The daemon is running (pid 7), and starts with the machine.'])
  expect(root.ran.join()).not.toContain('loginctl')
})

test('startService() fails where nothing answers, or another daemon does', async () => {
  await expect(machine({ isDeaf: true }).start()).rejects.toThrow('its daemon does not answer')
  const busless = machine({ before: 5, busless: true })
  await expect(busless.start()).rejects.toThrow('Cannot start the service: no bus')
  expect(busless.ran).toEqual(['systemctl --user daemon-reload'])
  await expect(machine({ unit: 9, main: '7\n' }).start()).rejects.toThrow("another daemon answers (pid 9; the unit's is 7)")
})

/** What was run, and whether the unit was removed, in their order. */
async function ended({ mac = false, root = false, fails = '' }) {
  const done: string[] = []
  const run = async (file: string, args: readonly string[]) => {
    done.push([file, ...args].join(' '))
    if (fails !== '' && args.includes(fails)) throw new Error(`no ${fails}\nmore`)
    return ''
  }
  const said = await endService({ run, remove: () => done.push('remove') }, { mac, root, path: '/unit' }).catch(
    ({ message }: Error) => message,
  )
  return { done, said }
}

test('endService() has the daemon ended before its unit goes', async () => {
  expect(await ended({ root: true })).toMatchObject({
    done: ['systemctl disable --now anchorhold', 'remove', 'systemctl daemon-reload'],
    said: ['Removed /unit', expect.stringContaining('agents at work go on')],
  })
  expect((await ended({})).done[0]).toBe('systemctl --user disable --now anchorhold')
  expect((await ended({ mac: true })).done).toEqual(['launchctl unload -w /unit', 'remove'])
})

test('endService() leaves a unit that is still started, and says why', async () => {
  expect(await ended({ fails: 'disable' })).toEqual({
    done: ['systemctl --user disable --now anchorhold'],
    said: 'Cannot end the service: no disable',
  })
})
