//! Words that carry no meaning of their own, English and German, folded as `words` folds (no accents, `ss` for `ß`).

use std::collections::HashMap;
use std::sync::LazyLock;

/// Stop words of either language that are no content word of the other.
const PLAIN: &str = "
a about above after again against all also alright an and any anyone anything are arent as at away be became because
become been before being below between both but by can cannot cant come could couldnt did didnt do does doesnt doing
done dont down during each either else ever every everyone everything few for from further get gets getting give go goes
going got had hadnt has hasnt have havent having he hed hell hello help her here hers herself hes hey hi him himself his
how hows however i id if ill im in into is isnt it its itself ive just kind know let lets like likely lot made make makes
many may maybe me might more most much must my myself need never no nor not now of off often oh ok okay on once one only
or other others ought our ours ourselves out over own perhaps please put quite rather really said same say says see
seem seen shall she shed shell shes should shouldnt show since so some someone something soon still such sure take tell than
thank thanks that thats the their theirs them themselves then there theres these they theyd theyll theyre theyve thing
things think this those though through thus to together too try under until up upon us use used uses using very via
want wants was wasnt way we wed well went were werent weve what whats whatever when whens where wheres whether which
while who whom whos whose why whys with within without wont would wouldnt yes yet you youd youll your youre yours
yourself yourselves youve

aber all alle allem allen aller alles als ander andere anderem anderen anderer anderes auch auf aus ausser bei beim
bereits besser bis bist bitte brauche brauchen brauchst da dabei dadurch dafur dagegen daher damit danach dann daran
darauf darf daruber darum das dasselbe dass davon davor dazu dein deine deinem deinen deiner deines dem denn der deren
derer dessen dich dies diese dieselbe diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer
eines einfach einig einige einigem einigen einiger einiges einmal er es etwas euch euer eure eurem euren eurer eures
fur ganz gar gegen geht gemacht genau gerade gern gewesen gibt ging habe haben hallo hast hatte hatten hattest hier
hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im immer indem ins ist ja jede jedem jeden jeder jedes
jene jenem jenen jener jenes jetzt kann kannst kein keine keinem keinen keiner keines konnen konnte konnten machen
macht mal manche manchem manchen mancher manches mehr mein meine meinem meinen meiner meines mich mir mochte muss
mussen musste nach naturlich nein nicht nichts noch nun nur ob obwohl oder ohne schon sehr sei seid sein seine seinem
seinen seiner seines seit selbst sich sie sind sitze so sobald sogar solche solchem solchen solcher solches soll sollen
sollte sollten sondern sonst soweit sowie uber um und uns unser unsere unserem unseren unserer unseres unter viel viele
vielleicht vom von vor wahrend wann warum was weder wegen weil weiter welche welchem welchen welcher welches wem wen
wenn wer werde werden wie wieder wieso willst wir wird wirst wo wohin wollen wollte worden wurde wurden zu zum zur zwar
zwischen
";

/// German stop words that are English content words (`war`, `mit`, `die`): stop words in German text only.
const GERMAN_ONLY: &str = "am bin den des die hat man mit war waren will";

/// Which of the two lists a word is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A content word.
    No,
    /// A stop word in any text.
    Plain,
    /// A stop word where the text is German.
    GermanOnly,
}

/// Looks a folded, lower-case word up.
pub(crate) fn stop(word: &str) -> Stop {
    static LISTS: LazyLock<HashMap<&str, Stop>> = LazyLock::new(|| {
        let german = GERMAN_ONLY.split_ascii_whitespace().map(|word| (word, Stop::GermanOnly));
        german.chain(PLAIN.split_ascii_whitespace().map(|word| (word, Stop::Plain))).collect()
    });
    LISTS.get(word).copied().unwrap_or(Stop::No)
}
