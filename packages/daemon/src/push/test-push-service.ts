import { decrypt } from 'http_ece'
import { execFileSync } from 'node:child_process'
import { createECDH, createPublicKey, randomBytes, verify } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'

/** A push service on this machine, and a browser that subscribed to it: it reads messages as a browser does, by RFC 8291 and
 *  RFC 8292. No push service of the world has seen these tests. */
export interface TestPushService extends AsyncDisposable {
  /** As config.yaml names it. */
  readonly host: string
  /** Its certificate, which is its own authority. */
  readonly certificateFile: string
  readonly messages: readonly Received[]
  /** What it answers with from now on. */
  answer: number
  subscription(): { readonly endpoint: string; readonly keys: { readonly p256dh: string; readonly auth: string } }
}
export type Received = {
  readonly text: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** The key that the sender has shown to be its own. */
  readonly sender: string
}

export async function testPushService(): Promise<TestPushService> {
  const folder = mkdtempSync(join(tmpdir(), 'ah-push-'))
  const [key, certificateFile] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-keyout', key, '-out', certificateFile]
  execFileSync('openssl', [...made, ...names], { stdio: 'ignore' })
  const browser = createECDH('prime256v1')
  browser.generateKeys()
  const auth = randomBytes(16).toString('base64url')
  const messages: Received[] = []
  const it = { answer: 201 }
  const server = createServer({ key: readFileSync(key), cert: readFileSync(certificateFile) }, (request, response) => {
    void (async () => {
      const body = await buffer(request)
      const text = decrypt(body, { version: 'aes128gcm', privateKey: browser, authSecret: auth }).toString('utf8')
      messages.push({
        text,
        headers: request.headers,
        sender: senderOf(request.headers.authorization ?? '', `https://${host()}`),
      })
      response.writeHead(it.answer).end()
    })().catch((error: unknown) => {
      messages.push({ text: `unreadable: ${String(error)}`, headers: request.headers, sender: '' })
      response.writeHead(400).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve))
  const host = () => `localhost:${(server.address() as AddressInfo).port}`
  return Object.assign(it, {
    host: host(),
    certificateFile,
    messages,
    subscription: () => ({
      endpoint: `https://${host()}/${randomBytes(6).toString('hex')}`,
      keys: { p256dh: browser.getPublicKey('base64url'), auth },
    }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      rmSync(folder, { recursive: true })
    },
  })
}

/** Checks the sender's token as a push service must: signed by the key it names, for this service, and not for long. */
function senderOf(authorization: string, audience: string): string {
  const [, token = '', key = ''] = /^vapid t=([\w.-]+), k=([\w-]+)$/.exec(authorization) ?? []
  const [head = '', claims = '', signature = ''] = token.split('.')
  const point = Buffer.from(key, 'base64url')
  const [x, y] = [point.subarray(1, 33).toString('base64url'), point.subarray(33).toString('base64url')]
  const publicKey = createPublicKey({ format: 'jwk', key: { kty: 'EC', crv: 'P-256', x, y } })
  const signed = Buffer.from(`${head}.${claims}`)
  const good = verify('sha256', signed, { key: publicKey, dsaEncoding: 'ieee-p1363' }, Buffer.from(signature, 'base64url'))
  const { aud, exp } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as { aud: string; exp: number }
  if (!good || aud !== audience || exp * 1000 > Date.now() + 86_400_000) throw new Error('the sender is not who it says')
  return key
}
