/** Which secrets the owner lets sessions be given. */
export const insideSecrets = `
alter table secret add column inside integer not null default 0;
`
