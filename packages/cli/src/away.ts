/** Whether nobody answered: what `fetch` throws, or what something before the daemon said in its place. Whether the call was carried out is
 *  unknown. */
export const isAway = (error: unknown): error is Error =>
  error instanceof Error &&
  (error.name === 'Unanswered' || (error instanceof TypeError && /^(fetch failed|terminated)$/.test(error.message)))
