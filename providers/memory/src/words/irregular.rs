//! Irregular forms of English and German verbs and nouns: what no stemmer leads back to its base.

use std::collections::HashMap;
use std::sync::LazyLock;

/// `base: forms`, one line a base. Forms that are more often another word (`saw`, `left`, `found`ed) stand with both.
const ENGLISH: &str = "
arise: arose arisen
awake: awoke awoken
bear: bore borne
beat: beaten
begin: began begun
bend: bent
bet: bets
bind: bound
bite: bit bitten
bleed: bled
blow: blew blown
break: broke broken
breed: bred
bring: brought
broadcast: broadcasted
build: built
burn: burnt
buy: bought
catch: caught
choose: chose chosen
cling: clung
creep: crept
deal: dealt
dig: dug
draw: drew drawn
dream: dreamt
drink: drank drunk
drive: drove driven
eat: ate eaten
fall: fell fallen
feed: fed
feel: felt
fight: fought
find: found
flee: fled
fly: flew flown
forbid: forbade forbidden
forget: forgot forgotten
forgive: forgave forgiven
freeze: froze frozen
grow: grew grown
hang: hung
hear: heard
hide: hid hidden
hold: held
keep: kept
kneel: knelt
lay: laid
lead: led
learn: learnt
leave: left
lend: lent
lie: lay lain
light: lit
lose: lost
mean: meant
meet: met
mistake: mistook mistaken
overcome: overcame
override: overrode overridden
oversee: oversaw overseen
pay: paid
ride: rode ridden
ring: rang rung
rise: rose risen
run: ran
seek: sought
sell: sold
send: sent
shake: shook shaken
shine: shone
shoot: shot
shrink: shrank shrunk
sing: sang sung
sink: sank sunk
sit: sat
sleep: slept
slide: slid
speak: spoke spoken
spend: spent
spin: spun
spring: sprang sprung
stand: stood
steal: stole stolen
stick: stuck
sting: stung
strike: struck stricken
strive: strove striven
swear: swore sworn
sweep: swept
swim: swam swum
swing: swung
teach: taught
tear: tore torn
tell: told
throw: threw thrown
understand: understood
undo: undid undone
wake: woke woken
wear: wore worn
weave: wove woven
weep: wept
win: won
wind: wound
withdraw: withdrew withdrawn
write: wrote written
rewrite: rewrote rewritten
overwrite: overwrote overwritten
rebuild: rebuilt
reset: resets
child: children
foot: feet
goose: geese
knife: knives
leaf: leaves
life: lives
man: men
mouse: mice
person: people
shelf: shelves
tooth: teeth
wife: wives
woman: women
index: indices indexes
matrix: matrices
vertex: vertices
schema: schemata
datum: data
query: queries
";

const GERMAN: &str = "
backen: buk
befehlen: befahl befohlen
beginnen: begann begonnen
beissen: biss gebissen
beweisen: bewies bewiesen
biegen: bog gebogen
bieten: bot geboten
anbieten: angeboten
binden: band gebunden
einbinden: eingebunden
bitten: bat gebeten
bleiben: blieb geblieben
brechen: brach gebrochen bricht
abbrechen: abgebrochen
brennen: brannte gebrannt
bringen: brachte gebracht
denken: dachte gedacht
dringen: drang gedrungen
empfehlen: empfahl empfohlen empfiehlt
entscheiden: entschied entschieden
erscheinen: erschien erschienen
essen: ass gegessen isst
fahren: fuhr gefahren fahrt
hochfahren: hochgefahren
fallen: fiel gefallen fallt
ausfallen: ausgefallen
fangen: fing gefangen
anfangen: angefangen
finden: fand gefunden
fliegen: flog geflogen
fliessen: floss geflossen
frieren: fror gefroren
einfrieren: eingefroren
geben: gab gegeben
ausgeben: ausgegeben
freigeben: freigegeben
gehen: gegangen
gelten: galt gegolten gilt
geschehen: geschah geschieht
gewinnen: gewann gewonnen
giessen: goss gegossen
greifen: griff gegriffen
zugreifen: zugegriffen zugriff
halten: hielt gehalten halt
anhalten: angehalten
einhalten: eingehalten
hangen: hing gehangen
heben: hob gehoben
aufheben: aufgehoben
heissen: hiess geheissen
helfen: half geholfen hilft
kennen: kannte gekannt
kommen: kam gekommen
laden: lud geladen
hochladen: hochgeladen
herunterladen: heruntergeladen
lassen: liess gelassen
laufen: lief gelaufen lauft
ablaufen: abgelaufen
leihen: lieh geliehen
lesen: las gelesen liest
auslesen: ausgelesen
liegen: lag gelegen
messen: mass gemessen misst
nehmen: nahm genommen nimmt
annehmen: angenommen
ubernehmen: ubernahm ubernommen
nennen: nannte genannt
benennen: benannt
umbenennen: umbenannt
raten: riet
reissen: riss gerissen
rennen: rannte gerannt
rufen: rief gerufen
aufrufen: aufgerufen
abrufen: abgerufen
schaffen: schuf geschaffen
scheiden: schied geschieden
schieben: schob geschoben
verschieben: verschob verschoben
schiessen: schoss geschossen
schlafen: schlief geschlafen
schlagen: schlug geschlagen
vorschlagen: vorgeschlagen
schliessen: schloss geschlossen
abschliessen: abgeschlossen
ausschliessen: ausgeschlossen
anschliessen: angeschlossen
schneiden: schnitt geschnitten
abschneiden: abgeschnitten
schreiben: schrieb geschrieben
beschreiben: beschrieb beschrieben
uberschreiben: uberschrieb uberschrieben
unterschreiben: unterschrieb unterschrieben
schwimmen: schwamm geschwommen
sehen: sah gesehen sieht
senden: sandte gesandt
sinken: sank gesunken
sitzen: sass gesessen
sprechen: sprach gesprochen spricht
springen: sprang gesprungen
stehen: stand gestanden
bestehen: bestand bestanden
entstehen: entstand entstanden
verstehen: verstand verstanden
stehlen: stahl gestohlen
steigen: stieg gestiegen
sterben: starb gestorben
streichen: strich gestrichen
streiten: stritt gestritten
tragen: trug getragen tragt
eintragen: eingetragen
treffen: traf getroffen trifft
treiben: trieb getrieben
treten: trat getreten
auftreten: aufgetreten
trinken: trank getrunken
verbieten: verbot verboten
verbinden: verband verbunden
verderben: verdarb verdorben
vergessen: vergass vergisst
vergleichen: verglich verglichen
verlieren: verlor verloren
vermeiden: vermied vermieden
verschwinden: verschwand verschwunden
verwenden: verwandt
verzeihen: verzieh verziehen
wachsen: wuchs gewachsen
waschen: wusch gewaschen
weichen: wich gewichen
weisen: wies gewiesen
zuweisen: zugewiesen
werben: warb geworben
werfen: warf geworfen wirft
verwerfen: verwarf verworfen
wiegen: wog gewogen
wissen: wusste gewusst weiss
ziehen: zog gezogen
umziehen: umgezogen
beziehen: bezog bezogen
zwingen: zwang gezwungen
datenbank: datenbanken
";

/// The base of an irregular form, folded and in lower case.
pub(super) fn base(form: &str) -> Option<&'static str> {
    static BASES: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
        let lines = ENGLISH.lines().chain(GERMAN.lines()).filter_map(|line| line.split_once(": "));
        lines.flat_map(|(base, forms)| forms.split(' ').map(move |form| (form, base))).collect()
    });
    BASES.get(form).copied()
}
