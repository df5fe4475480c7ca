import { z } from 'zod'
import { TokenId } from '../ids.ts'
import { User, UserName } from '../people.ts'
import { Done, type Route } from './route.ts'

/** How long a password must be at least: https://pages.nist.gov/800-63-4/sp800-63b.html#passwordver asks for eight beside a second
 *  factor, and one may come without. */
export const passwordCharsMin = 10
const Password = z.string().min(1).max(200)
const NewPassword = z.string().min(passwordCharsMin, `A password has at least ${passwordCharsMin} characters`).max(200)
const Code = z.string().trim().min(6).max(40).describe('Six digits of the authenticator, or a recovery code')
/** What a step of a login carries over to the next one; good once and for a few minutes. */
const Ticket = z.string().min(1).max(100)

/** What browsers give of a passkey, as `PublicKeyCredential.toJSON()` has it. It holds more than is asked for, and differs between
 *  browsers: https://www.w3.org/TR/webauthn-3/#sctn-public-key-credential-json */
const text = z.string().max(16_384)
const credential = { id: text, rawId: text, type: z.literal('public-key'), authenticatorAttachment: z.string().optional() }
export const NewPasskey = z.object({
  ...credential,
  response: z.object({
    clientDataJSON: text,
    attestationObject: text,
    transports: z.array(z.string().max(20)).max(10).optional(),
  }),
})
export type NewPasskey = z.infer<typeof NewPasskey>
export const ShownPasskey = z.object({
  ...credential,
  response: z.object({ clientDataJSON: text, authenticatorData: text, signature: text, userHandle: text.nullish() }),
})
export type ShownPasskey = z.infer<typeof ShownPasskey>

/** What a browser is asked for, as `PublicKeyCredential.parse…OptionsFromJSON()` reads it. */
const Challenge = z.object({ ticket: Ticket, options: z.looseObject({ challenge: z.string() }) })

export const Device = z.object({
  id: TokenId,
  name: z.string().describe('The browser and the system, as it says itself'),
  address: z.string().nullable().describe('Where it last called from'),
  created_at: z.int(),
  used_at: z.int().nullable(),
  expires_at: z.int().nullable(),
  this: z.boolean().describe('Whether it is the one that asks'),
})
export type Device = z.infer<typeof Device>

export const Passkey = z.object({
  id: z.string(),
  name: z.string(),
  site: z.string().describe('The host name that it is good for'),
  created_at: z.int(),
  used_at: z.int().nullable(),
})
export type Passkey = z.infer<typeof Passkey>

export const Account = z.object({
  user: User,
  password: z.boolean(),
  totp: z.boolean().describe('Whether a password needs a code of an authenticator beside it'),
  recovery_codes: z.int().describe('How many are left'),
  passkeys: z.array(Passkey),
  devices: z.array(Device),
})
export type Account = z.infer<typeof Account>

const LoggedIn = z.object({
  ok: z.literal(true),
  second: Ticket.nullable().describe('Not in yet: a code is asked for, with this ticket'),
})

export const loginRoutes = {
  loginWays: {
    summary: 'Which ways in there are beside a login link',
    status: 200,
    response: z.object({ password: z.boolean(), passkey: z.boolean() }),
    open: true,
  },
  loginByPassword: {
    summary: 'Exchange a password for a cookie, or for the question of a second factor',
    body: z.strictObject({ name: UserName, password: Password }),
    status: 200,
    response: LoggedIn,
    open: true,
  },
  loginByCode: {
    summary: 'The second factor after a password: a code, or a recovery code',
    body: z.strictObject({ ticket: Ticket, code: Code }),
    status: 200,
    response: LoggedIn,
    open: true,
  },
  askPasskey: {
    summary: 'What a browser is to sign with a passkey, to log in or to prove who it is',
    status: 200,
    response: Challenge,
    open: true,
  },
  loginByPasskey: {
    summary: 'Exchange what a passkey signed for a cookie',
    body: z.strictObject({ ticket: Ticket, passkey: ShownPasskey }),
    status: 200,
    response: LoggedIn,
    open: true,
  },
  account: { summary: 'Your ways in, and your devices', status: 200, response: Account },
  proveByPassword: {
    summary: 'Show again who you are, for what asks for it in the next five minutes',
    body: z.strictObject({ password: Password, code: Code.optional() }),
    status: 200,
    response: Done,
  },
  proveByPasskey: {
    summary: 'The same by a passkey',
    body: z.strictObject({ ticket: Ticket, passkey: ShownPasskey }),
    status: 200,
    response: Done,
  },
  setPassword: {
    summary: 'Set a password: your own, or as an owner anybody’s',
    params: z.strictObject({ name: UserName }),
    body: z.strictObject({ password: NewPassword }),
    status: 200,
    response: Done,
  },
  removePassword: {
    summary: 'Take your password away',
    status: 200,
    response: Done,
  },
  offerPasskey: {
    summary: 'What a browser is to make a passkey from',
    status: 200,
    response: Challenge,
  },
  addPasskey: {
    summary: 'Add a passkey',
    body: z.strictObject({ ticket: Ticket, passkey: NewPasskey, name: z.string().trim().min(1).max(100).optional() }),
    status: 201,
    response: Passkey,
  },
  removePasskey: {
    summary: 'Remove a passkey',
    params: z.strictObject({ id: z.string().regex(/^[\w-]{1,1400}$/) }),
    status: 200,
    response: Done,
  },
  offerTotp: {
    summary: 'A secret for an authenticator; it counts once a code of it was shown',
    status: 201,
    response: z.object({ ticket: Ticket, secret: z.string(), uri: z.string() }),
  },
  confirmTotp: {
    summary: 'Ask for a code beside the password from now on; gives recovery codes, shown once',
    body: z.strictObject({ ticket: Ticket, code: Code }),
    status: 200,
    response: z.object({ recovery_codes: z.array(z.string()) }),
  },
  removeTotp: {
    summary: 'Ask for no code any more',
    status: 200,
    response: Done,
  },
  revokeOthers: {
    summary: 'Log out every other device of yours, and revoke your tokens where that is asked for; their open streams end',
    body: z
      .strictObject({
        tokens: z
          .boolean()
          .optional()
          .describe('Also revoke every token of yours but that of the command line on the machine itself'),
      })
      .optional(),
    status: 200,
    response: z.object({ revoked: z.int() }),
  },
} as const satisfies Record<string, Route>
