import { Failure } from '@anchorhold/protocol/failures'
import type { Command } from 'commander'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Context } from '../context.ts'
import { type Daemon, findDaemon } from '../daemon.ts'
import { checkReach, type Finding } from '../reach.ts'
import { table } from '../terminal.ts'

type Place = { readonly port: string; readonly host: string }
type Way = {
  /** What it is, in a line. */
  readonly what: string
  /** The host where none is named; null where one must be. */
  readonly usualHost: string | null
  /** The file that the other program reads, if it needs one. */
  readonly file: ((place: Place) => { readonly name: string; readonly text: string }) | null
  /** What is to be run before the daemon has its URL, one by one; `FILE` is where the file lies. */
  readonly commands: (place: Place) => readonly string[]
}

const exampleUrl = 'https://agents.example'
const ways: Readonly<Record<string, Way>> = {
  tailscale: {
    what: 'for the devices of your own tailnet, or for everybody',
    usualHost: 'MACHINE.TAILNET.ts.net',
    file: null,
    commands: ({ port }) => [
      `tailscale serve --bg --https=443 http://127.0.0.1:${port}   # for the devices of your tailnet`,
      `tailscale funnel --bg --https=443 http://127.0.0.1:${port}  # or for everybody`,
    ],
  },
  cloudflare: {
    what: 'a tunnel, for a domain at Cloudflare',
    usualHost: null,
    file: ({ port, host }) => ({
      name: 'cloudflared.yml',
      text: `tunnel: anchorhold\ningress:\n  - hostname: ${host}\n    service: http://127.0.0.1:${port}\n  - service: http_status:404\n`,
    }),
    commands: ({ host }) => [
      'cloudflared tunnel login',
      'cloudflared tunnel create anchorhold',
      `cloudflared tunnel route dns anchorhold ${host}`,
      'cloudflared tunnel --config FILE run anchorhold',
    ],
  },
  caddy: {
    what: 'a proxy, on a machine that is reached on ports 80 and 443',
    usualHost: null,
    file: ({ port, host }) => ({ name: 'Caddyfile', text: `${host} {\n\treverse_proxy 127.0.0.1:${port}\n}\n` }),
    commands: () => ['caddy run --config FILE'],
  },
}

export function expose(program: Command, context: Context): void {
  program
    .command('expose')
    .summary('how to reach it from outside: tailscale, cloudflare or caddy; check tries the public URL')
    .argument('[how]', `${Object.keys(ways).join(', ')}, or check; shows what there is otherwise`)
    .option('--url <url>', 'the public URL that it is to have')
    .option('--print', 'show what would be written, and write nothing')
    .option('--json', 'as JSON')
    .action(async (how: string | undefined, options: { url?: string; print?: true; json?: true }) => {
      const asJson = (value: unknown) => context.terminal.line(JSON.stringify(value))
      if (how === undefined) {
        const offered = waysFor(hostOf(options.url))
        return options.json ? asJson(offered) : tellWays(context, offered)
      }
      const running = await findDaemon(context.where())
      if (how === 'check') {
        const daemon = running ?? (await context.daemon())
        const url = options.url ?? (await daemon.api.status()).url
        if (options.url === undefined && URL.parse(url)?.hostname === 'localhost')
          throw new Failure('conflict', 'There is nothing to check: no public URL is set', {
            hint: 'anchorhold expose shows the ways to have one; one that you have already is checked with --url',
          })
        const findings = await reachOf(context, daemon, url)
        if (options.json) asJson({ url, findings })
        else tellFindings(context, findings)
        if (!findings.every(({ ok }) => ok)) context.exit(1)
        return
      }
      const way = ways[how]
      if (way === undefined)
        throw new Failure('bad_request', `Unknown method "${how}"`, {
          hint: `Methods: ${Object.keys(ways).join(', ')}, and check`,
        })
      const host = hostOf(options.url) ?? way.usualHost
      if (host === null)
        throw new Failure('bad_request', `Cannot show the way with "${how}": it needs the public URL`, {
          hint: `Give it: --url ${exampleUrl}`,
        })
      const port = running === null ? '7777' : new URL(running.url).port
      const plan = planOf(context, way, { port, host }, running !== null)
      if (options.print !== true) writeFileOf(plan)
      if (options.json) asJson(plan)
      else tellPlan(context, plan, { print: options.print === true })
    })
}

function hostOf(url: string | undefined): string | null {
  if (url === undefined) return null
  const read = URL.parse(url)
  if (read?.protocol === 'https:' && read.pathname === '/') return read.host
  throw new Failure('bad_request', `Cannot use the public URL "${url}": it is no https address without a path`)
}

type Offered = { readonly how: string; readonly what: string; readonly command: string }

function waysFor(host: string | null): readonly Offered[] {
  const url = host === null ? exampleUrl : `https://${host}`
  return Object.entries(ways).map(([how, { what, usualHost }]) => ({
    how,
    what,
    command: `anchorhold expose ${how}${usualHost === null || host !== null ? ` --url ${url}` : ''}`,
  }))
}

function tellWays({ terminal }: Context, offered: readonly Offered[]): void {
  for (const row of table(offered.map(({ command, what }) => [command, terminal.style('dim', what)]))) terminal.line(row)
}

/** What is to be done, one after the other. */
type Plan = {
  readonly file: { readonly path: string; readonly text: string } | null
  readonly commands: readonly string[]
  readonly config: { readonly path: string; readonly public_url: string; readonly trusted_proxies: number }
}

function planOf({ where, config }: Context, way: Way, place: Place, running: boolean): Plan {
  const file = way.file?.(place) ?? null
  const path = file === null ? '' : join(where().state, 'expose', file.name)
  const publicUrl = `https://${place.host}`
  return {
    file: file === null ? null : { path, text: file.text },
    commands: [
      ...way.commands(place).map((command) => command.replace('FILE', path)),
      // One that runs would keep the address it has.
      ...(running ? ['anchorhold down'] : []),
      `anchorhold up --public-url ${publicUrl}`,
    ],
    config: { path: config(), public_url: publicUrl, trusted_proxies: 1 },
  }
}

function writeFileOf({ file }: Plan): void {
  if (file === null) return
  mkdirSync(dirname(file.path), { recursive: true, mode: 0o700 })
  writeFileSync(file.path, file.text, { mode: 0o600 })
}

function tellPlan({ terminal }: Context, { file, commands, config }: Plan, { print }: { readonly print: boolean }): void {
  if (file !== null && print) {
    terminal.line(terminal.style('dim', `# ${file.path}`))
    terminal.line(file.text)
  } else if (file !== null) {
    terminal.line(`${terminal.style('green', '✓')} ${file.path} is written.`)
    terminal.line()
  }
  terminal.line('Run, one after the other:')
  for (const command of commands) terminal.line(`  ${command}`)
  terminal.line()
  terminal.line(`And in ${config.path}, so that it stays so and devices are told apart:`)
  terminal.line(`  public_url: ${config.public_url}`)
  terminal.line(`  trusted_proxies: ${config.trusted_proxies}`)
  terminal.line()
  terminal.line('Then: anchorhold expose check')
}

/** What stands in the way from outside, each with its remedy. */
async function reachOf({ terminal, config }: Context, daemon: Daemon, publicUrl: string): Promise<readonly Finding[]> {
  if (!URL.canParse(publicUrl))
    throw new Failure('bad_request', `"${publicUrl}" is no URL`, { hint: 'Write it whole: https://agents.example' })
  const { url } = await daemon.api.status()
  if (url !== new URL(publicUrl).origin) {
    const remedy = `Restart it: anchorhold down, then anchorhold up --public-url ${publicUrl}`
    return [{ ok: false, what: `The daemon runs as ${url}, not as ${publicUrl}`, remedy }]
  }
  terminal.spin(`asking for ${publicUrl}`)
  return checkReach(daemon, publicUrl, config())
}

function tellFindings({ terminal }: Context, findings: readonly Finding[]): void {
  for (const { ok, what, remedy } of findings) {
    terminal.line(`${ok ? terminal.style('green', '✓') : terminal.style('red', '✗')} ${terminal.foreign(what)}`)
    if (remedy !== undefined) terminal.line(`  ${terminal.foreign(remedy)}`)
  }
}

export async function tellReach(context: Context, daemon: Daemon, publicUrl: string): Promise<void> {
  tellFindings(context, await reachOf(context, daemon, publicUrl))
}
