import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { filesBelow, processes } from './host.ts'
import { type Installation, installation, outputsOf } from './installation.ts'
import { certificate, fillFiles, giveFile, ownName, pathOf } from './outside.ts'
import { guises, scan } from './scan.ts'

const scratch = mkdtempSync(join(tmpdir(), 'ah-e2e-open-'))
const files = join(scratch, 'files')

const host = ownName()

const tls = certificate(host)
fillFiles(files)
writeFileSync(join(scratch, 'ca.pem'), tls.cert)
writeFileSync(join(files, 'private'), 'nobody may read this\n')
type Seen = { readonly method: string; readonly path: string; readonly headers: IncomingHttpHeaders }
const seen: Seen[] = []
const server = createServer(tls, (request, response) => {
  const path = pathOf(request)
  seen.push({ method: request.method ?? '', path, headers: request.headers })
  if (path.startsWith('/echo')) return void response.end(JSON.stringify(request.headers))
  giveFile(files, path, response)
})
const place = () => `${host}:${(server.address() as AddressInfo).port}`

let it: Installation
beforeAll(async () => {
  server.listen(0, /^\d/.test(host) ? host : '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const match = `host: ${JSON.stringify(host)}, port: ${port}`
  const rules = [
    `  - { on: net, match: { ${match}, method: [GET, HEAD] }, effect: allow, own_network: true }`,
    `  - { on: net, match: { ${match}, path: "/private*" }, effect: deny, why: it is private }`,
  ]
  it = await installation({ policy: `rules:\n${rules.join('\n')}\n`, config: `net_ca: ${join(scratch, 'ca.pem')}\n` })
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  server.closeAllConnections()
  server.close()
  rmSync(scratch, { recursive: true })
})

test('curl, git, npm and Node go through TLS that is opened without being told whom to trust, and rules see method and path', async () => {
  const commands = [
    `curl -sS https://${place()}/hello`,
    `git clone -q https://${place()}/repo.git && cat repo/README`,
    `npm view --fetch-retries 0 --registry https://${place()}/ left version`,
    `/opt/anchorhold/forwarder/node -e 'fetch("https://${place()}/hello").then(r=>r.text()).then(t=>console.log("node",t))'`,
    `python3 -c 'import urllib.request as u; print("python", u.urlopen("https://${place()}/hello").read())' || true`,
    `curl -s "https://${place()}/private?token=1"`,
    `curl -s -d x https://${place()}/hello -o /dev/null -w 'post %{http_code} ' -m 1`,
    `curl -sv https://${place()}/hello 2>&1 | grep -i issuer`,
    'touch /opt/anchorhold/trust/x || echo the trust is not the cell’s',
  ]
  const { session, events } = await it.run(`run \`${commands.join('; ')}\``)
  const said = outputsOf(events)
  expect(said).toContain('hello from outside')
  expect(said).toContain('cloned through the window')
  expect(said).toContain('1.2.3')
  expect(said).toContain('node hello from outside')
  expect(said).toMatch(/python b'hello|python3: (command )?not found/)
  expect(said).toContain(`issuer: CN=Anchorhold ${session.id}`)
  expect(said).toContain(`"method":"GET","path":"/private?token=1"`)
  expect(said).toContain('it is private')
  expect(said).toContain('the trust is not the cell’s')
  expect(seen.every(({ method, headers }) => method === 'GET' && headers.via === '1.1 anchorhold')).toBe(true)
  expect(seen.map(({ path }) => path)).toEqual(expect.arrayContaining(['/hello', '/repo.git/info/refs', '/left']))
  expect(seen.map(({ path }) => path)).not.toContain('/private')
  const { out } = await it.cli(['net', session.id, '--json'])
  const { hosts } = JSON.parse(out) as { hosts: { host: string; bytes_in: number; blocked: number }[] }
  expect(hosts).toMatchObject([{ host }])
  expect(hosts[0]!.blocked).toBeGreaterThan(0)
  expect(hosts[0]!.bytes_in).toBeGreaterThan(1000)
  expect((await it.cli(['net', session.id])).out).not.toContain('token')
})

test('a credential arrives at its endpoint, is struck out of what comes back, and is nowhere in the cell, the logs or the state', async () => {
  const value = `ghp_${randomBytes(18).toString('hex')}`
  const { port } = server.address() as AddressInfo
  writeFileSync(
    join(it.state, 'config/credentials.yaml'),
    `credentials:\n  - { host: ${JSON.stringify(host)}, port: ${port}, path: "/echo/mine*", header: Authorization, secret: api, env: API_TOKEN }\n`,
  )
  const added = await it.cli(['secret', 'add', 'api'], { input: `${value}\n` })
  expect(added).toMatchObject({ code: 0, out: expect.stringContaining('api (ghp…') as string })
  const commands = [
    'echo "token is $API_TOKEN"',
    `curl -sS https://${place()}/echo/mine`,
    `curl -sS -H "Authorization: token $API_TOKEN" https://${place()}/echo/mine/2`,
    `curl -s -H "Authorization: token $API_TOKEN" https://${place()}/echo/other`,
    `curl -s https://${place()}/echo/none`,
    `curl -s -H "Authorization: Bearer sk-ant-api03-of-somebody-else" https://${place()}/hello`,
  ]
  const workspace = it.workspace({ 'scan.pl': scan(value) })
  const { session, events } = await it.run(`run \`${commands.join('; echo; ')}\``, { workspace })
  const said = outputsOf(events)
  expect(said).toContain('token is anchorhold-placeholder-api')
  expect(said).toContain('"authorization":"Bearer ****')
  expect(said).toContain('"authorization":"token ****')
  expect(said).toContain('stands for a secret that is not for this endpoint')
  expect(said).toContain('a key to a model that is not yours')
  const found = outputsOf(await it.turn(session.id, 'run `perl scan.pl`'))
  expect(found).toMatch(/scanned files=\d{2,} bytes=\d{4,} processes=[1-9]\d* memory=\d{6,} found=0 ?$/m)
  const sent = (path: string) => seen.filter((one) => one.path === path).map(({ headers }) => headers.authorization)
  expect(sent('/echo/mine')).toEqual([`Bearer ${value}`])
  expect(sent('/echo/mine/2')).toEqual([`token ${value}`])
  expect(sent('/echo/other')).toEqual([])
  expect(sent('/echo/none')).toEqual([undefined])
  expect((await it.cli(['net', session.id])).out).toContain('api ×2')

  // Under a new key it goes on, in a gate that is told so.
  expect(await it.cli(['secret', 'rotate-key'])).toMatchObject({ code: 0, out: expect.stringContaining('1 are under') as string })
  await it.turn(session.id, `run \`curl -sS https://${place()}/echo/mine/3\``)
  expect(sent('/echo/mine/3')).toEqual([`Bearer ${value}`])
  expect(await it.cli(['secret', 'remove', 'api'])).toMatchObject({ code: 1, err: expect.stringContaining('names it') as string })

  const everything = [
    JSON.stringify(await it.log(session.id)),
    (await it.cli(['secret', 'list'])).out,
    (await it.cli(['audit', '--json'])).out,
    ...processes().map(({ argv }) => argv),
    ...filesBelow(it.state, join(it.state, 'runtime')).map(({ text }) => text),
  ]
  for (const guise of guises(value)) expect(everything.findIndex((text) => text.includes(guise))).toBe(-1)
}, 240_000)
